:- initialization(main).
list(0, []) :- !.
list(N, [N|T]) :- M is N - 1, list(M, T).
main :- list(20000, L), msort(L, S), length(S, N), write(N), nl, halt.
