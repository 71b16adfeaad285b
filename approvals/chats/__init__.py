"""Chats by which single people are told: what goes over the wire, and what a click there looks like."""
