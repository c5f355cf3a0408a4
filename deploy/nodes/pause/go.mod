module phalanx/nodes/pause

go 1.26.0
