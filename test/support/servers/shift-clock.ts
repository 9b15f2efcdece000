/**
 * Preloaded with `--import`: shifts the wall clock of the process by `TEST_CLOCK_SHIFT_SECONDS`. The monotonic clock
 * does not change.
 */
const shiftMilliseconds = Number(process.env.TEST_CLOCK_SHIFT_SECONDS ?? '0') * 1_000

globalThis.Date = new Proxy(Date, {
  construct: (real, args: unknown[], target) =>
    Reflect.construct(real, args.length === 0 ? [real.now() + shiftMilliseconds] : args, target) as Date,
  get: (real, name, receiver) =>
    name === 'now' ? () => real.now() + shiftMilliseconds : (Reflect.get(real, name, receiver) as unknown)
})
