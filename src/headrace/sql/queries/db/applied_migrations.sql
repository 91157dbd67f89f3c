-- Which steps were applied, with which text.
select name, checksum from headrace_internal.migration;
