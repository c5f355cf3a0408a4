"""Reserved starts of waiting gangs (backfill), and capacity holds for members that do not exist yet."""
