"""The only SQL. SQLite by default; statements are written so that PostgreSQL runs them too."""
