"""Assignment at the edge: a leader's assignments of a classic group are replaced on their way to the coordinator.

`edge.Edge` is its interface; an assignor runs outside, behind `assignments.AssignorRunner`.
"""
