"""The same work done by aftereffect, by other libraries and by hand, for field.py and live.py.

Every contestant is a module that is run with its work as JSON in argv and prints its outcome as one
line of JSON. One that needs an environment of its own has its pins in ``pins/``, under its own
name.
"""
