"""What the catalogs say of tables, and texts as the database stores them."""
