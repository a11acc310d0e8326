"""Media for models that do not take them: described images, and the text of PDF files."""
