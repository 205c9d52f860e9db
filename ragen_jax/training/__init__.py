"""The only place where environments, rollouts, models and the learner meet."""
