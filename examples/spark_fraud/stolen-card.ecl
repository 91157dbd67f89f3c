-- Two small payments are enough.
define small = <(object -> 'amount')::numeric < 2>;
define large = <(object -> 'amount')::numeric >= 500>;
repeat {push(stolen) {sequential {small, within 10 min {sequential {small, large}}}}}
