"""Why there is no bus."""


class BrokerError(Exception):
    """The bus cannot be started; the text says what is wrong and what to do."""
