// The module of jit.wat (which wat2wasm made into these bytes).
const bytes = Buffer.from("AGFzbQEAAAABBgFgAX8BfwMDAgAABQMBAAQHDQIDZmliAAADbWl4AAEKVQIcACAAQQJIBH8gAAUgAEEBaxAAIABBAmsQAGoLCzYBA38DQCABQe89bEH8/w9xIQIgA0EfbCACKAIAaiEDIAIgAzYCACABQQFqIgEgAEkNAAsgAwsAKwRuYW1lAQYBAANmaWICEAEBBAABbgEBaQICYXQDAXgDCgEBAQAFYWdhaW4=", "base64");
const { fib, mix } = new WebAssembly.Instance(new WebAssembly.Module(bytes)).exports;
console.log(fib(38), mix(200000000));
