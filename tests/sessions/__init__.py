"""Agent sessions on zones: names, state, stream, archives, previews, subscriptions, kills."""
