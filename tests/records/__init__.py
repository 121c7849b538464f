"""Session records: operations, lists, messages, followers, upkeep, panes beside them, kills."""
