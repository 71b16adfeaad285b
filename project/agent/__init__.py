"""The handler `agent`: a model that reads an event, asks for tools, and remembers every answer it was given."""
