"""What bytes look like on the wire we serve; knows nothing of providers."""
