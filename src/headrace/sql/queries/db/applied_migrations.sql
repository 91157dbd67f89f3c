-- The applied steps, with the checksums of their texts.
select name, checksum from headrace_internal.migration;
