"""Makes machine code of whole programs only: numba makes it of every function on the way too."""

from typing import Any

#: The names of functions that are only called by programs, which contain a digest of their code.
callees: set[str] = set()
#: What numba keeps for a callee, by the name of a variable in machine code that is not made yet.
_environments: dict[str, Any] = {}
#: What `skip_callees` uses of numba's code generator.
_NEEDED = ("_library_class", "_engine", "set_env")


def skip_callees(codegen: Any) -> None:
    """Let numba's code generator make machine code of programs once, not once per function.

    When numba has compiled a function, LLVM optimises it and turns it into machine code together
    with all that it calls. What is called from a depth of five is thus done five times, which takes
    more than half of the time for a large policy. But callees of our programs are never called from
    Python: what LLVM makes of a program, with all callees in it, is enough.

    This uses what is private to numba. If it is not there in another version, compiling takes
    longer, and nothing else changes.
    """
    if not all(hasattr(codegen, name) for name in _NEEDED):
        return
    library: Any = codegen._library_class
    set_env = codegen.set_env

    class Library(library):  # type: ignore[misc]  # numba has no types
        def _optimize_final_module(self) -> None:
            if self.name not in callees:
                super()._optimize_final_module()

        def _finalize_final_module(self) -> None:
            if self.name in callees:
                self._finalized = True
                return
            super()._finalize_final_module()
            for name in list(_environments):
                if codegen._engine.get_global_value_address(name):
                    set_env(name, _environments.pop(name))

    def set_env_later(name: str, environment: Any) -> None:
        if codegen._engine.get_global_value_address(name):
            set_env(name, environment)
        else:
            _environments[name] = environment

    codegen._library_class, codegen.set_env = Library, set_env_later
