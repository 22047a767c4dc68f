%token NUM
%left '+' '-'
%left '*' '/'
%%
input: | input line;
line: '\n' | e '\n';
e: NUM | e '+' e | e '-' e | e '*' e | e '/' e | '(' e ')';
%%
