"""The plan of a live queue: made from what the scheduler says, repaired as things happen, and handed to the hook."""
