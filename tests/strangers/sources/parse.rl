%%{ machine words; main := ( [a-z]+ | [0-9]+ | space )*; write data; }%%
int parse(const char *p, const char *pe) { int cs; %% write init;
%% write exec;
return cs; }
