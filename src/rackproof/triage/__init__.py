"""From an engine log to the stage that failed, the class of the failure, and what to do next."""
