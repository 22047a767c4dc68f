module example.com/advice

go 1.26
