const RFC_3339 = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:Z|[+-]\d{2}:\d{2})$/i

/**
 * Parses a date and time with its offset.
 *
 * @returns milliseconds since the Unix epoch, or NaN when the text is none
 * @see RFC 3339, section 5.6
 */
export function parseDateTime(text: string): number {
  // A full date-time with an offset reads no clock and no time zone: this is the one pure corner of Date.
  // eslint-disable-next-line no-restricted-globals
  return RFC_3339.test(text) ? Date.parse(text) : Number.NaN
}
