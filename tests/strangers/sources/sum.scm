(define (build n) (if (= n 0) '() (cons (number->string n) (build (- n 1)))))
(display (length (build 5000)))
(newline)
