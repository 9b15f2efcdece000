/**
 * The argument of `node --import` that sends what a client asks of `localhost:3000` to another port. The login domain of
 * the examples stays `localhost:3000`, wherever a test lets them listen.
 */
export function clientHook(port: number | string): string {
  const hook = `const send = globalThis.fetch
globalThis.fetch = (url, init) => send(String(url).replace('localhost:3000', '127.0.0.1:${port}'), init)`
  return `data:text/javascript,${encodeURIComponent(hook)}`
}
