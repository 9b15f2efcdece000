const RFC_3339 = /^(\d{4}-\d{2}-\d{2})T([01]\d|2[0-3]):\d{2}:\d{2}(?:\.\d{1,9})?(?:Z|[+-]\d{2}:\d{2})$/i

/** Seconds since the Unix epoch; undefined for a leap second, and for anything else. @see RFC 3339, 5.6 and 5.7 */
export function parseDateTime(value: unknown): number | undefined {
  const [text, day = ''] = typeof value === 'string' ? (RFC_3339.exec(value) ?? []) : []
  if (text === undefined) return undefined
  /* eslint-disable no-restricted-globals -- a full date-time with an offset reads no clock and no time zone */
  const milliseconds = Date.parse(text)
  // Date.parse takes 30 February for 2 March.
  const isDay = new Date(`${day}T00:00:00Z`).getUTCDate() === Number(day.slice(-2))
  /* eslint-enable no-restricted-globals */
  return Number.isNaN(milliseconds) || !isDay ? undefined : milliseconds / 1000
}
