"""The client library: connect, publish, subscribe; it reconnects, resumes and drops repeats."""
