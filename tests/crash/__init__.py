"""What is left after kills, power cuts, full disks, failing disks and flipped bytes."""
