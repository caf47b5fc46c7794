"""Most experiments that schemathesis generates are invalid (an upper end below the lower one).

Where it means to send valid data, this makes valid what the schema alone cannot express.
"""

import schemathesis


@schemathesis.hook
def map_case(context, case):
    sound = case.meta is None or case.meta.generation.mode.is_positive
    if sound and case.operation.label == "POST /v1/experiments" and isinstance(case.body, dict):
        arms = [f"arm {number}" for number in range(max(2, min(len(case.body.get("arms", [])), 5)))]
        case.body |= {
            "arms": arms,
            "policy": "ars-ucb",
            "reward_range": [0, 10],
            "max_total": None,
            "horizon": None,
        }
        case.body["name"] = f"experiment-{len(str(case.body.get('name', ''))) % 7}"
    if case.operation.label == "POST /v1/experiments/{name}/end":
        case.path_parameters = dict(case.path_parameters or {}) | {
            "name": "experiment-0"
        }  # the other experiments go on
    return case
