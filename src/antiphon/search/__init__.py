"""Search engines that the gateway asks for models that cannot search by themselves."""
