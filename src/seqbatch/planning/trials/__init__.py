"""The planner's own simulators: greedy trials by sums, any policy on thinned batches."""
