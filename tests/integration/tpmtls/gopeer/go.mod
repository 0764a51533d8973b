module gopeer

go 1.21
