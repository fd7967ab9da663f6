"""What a connector answers besides the protocol, to a runtime that asks for it by the environment."""
