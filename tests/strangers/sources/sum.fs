: total 0 swap 0 do i + loop ;
100000 total . cr bye
