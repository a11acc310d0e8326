"""`antiphon trace`: list, show, follow, export and resend traced requests."""
