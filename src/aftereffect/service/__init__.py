"""Live experiments over HTTP: the service, its tokens and its page. Needs the extra ``service``."""
