"""Work on whole stores: their state, migrations, copies and pruning (`antiphon store`)."""
