"""The bus on the bot's side: the embedded nats-server, the nodes that may use it, the stream."""
