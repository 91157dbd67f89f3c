-- How many topics there are, in all namespaces.
select count(*) from headrace_internal.topic;
