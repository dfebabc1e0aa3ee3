module doorbell/peers

go 1.19
