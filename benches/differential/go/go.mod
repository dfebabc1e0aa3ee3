module doorbell/differential

go 1.19
