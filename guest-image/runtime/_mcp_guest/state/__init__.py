"""What outlives a run: files for the user, project files, memories and saved tools."""
