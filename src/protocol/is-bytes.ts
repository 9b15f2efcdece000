/**
 * Whether a value is bytes: a Uint8Array of any realm. Test environments such as jsdom have a global `Uint8Array` of
 * their own, with which `instanceof` would refuse the bytes of Node.
 */
export function isBytes(value: unknown): value is Uint8Array {
  return ArrayBuffer.isView(value) && Object.prototype.toString.call(value) === '[object Uint8Array]'
}
