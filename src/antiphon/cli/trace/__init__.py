"""`antiphon trace`: list, show, follow, replay and resend traced requests."""
