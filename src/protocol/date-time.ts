const RFC_3339 = /^(\d{4})-(\d{2})-(\d{2})T([01]\d|2[0-3]):\d{2}:\d{2}(?:\.\d{1,9})?(?:Z|[+-]\d{2}:\d{2})$/i
const DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]

/**
 * Parses a date and time with its offset.
 *
 * @returns milliseconds since the Unix epoch, or NaN when the text is none; a leap second is none
 * @see RFC 3339, sections 5.6 and 5.7
 */
export function parseDateTime(text: string): number {
  const [, year, month, day] = RFC_3339.exec(text) ?? []
  // Date.parse takes 30 February for 1 March.
  if (!isDayOfMonth(Number(year), Number(month), Number(day))) return Number.NaN
  // A full date-time with an offset reads no clock and no time zone: this is the one pure corner of Date.
  // eslint-disable-next-line no-restricted-globals
  return Date.parse(text)
}

function isDayOfMonth(year: number, month: number, day: number): boolean {
  const isLeapYear = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0)
  const days = month === 2 && isLeapYear ? 29 : (DAYS[month - 1] ?? 0)
  return day >= 1 && day <= days
}
