import type { DidAuthClientError } from 'express-did-auth/client'
import { getElement, make } from './elements.js'

/** The action of a button. Resolves with the outcome as a sentence; other values are not shown. */
type Work = () => Promise<unknown>

/** Returns the text of a failure for users: the client's `userMessage`, or else the message of the error. */
export function describeError(error: unknown): string {
  const { userMessage, message = String(error), retryAfterSeconds } = Object(error) as Partial<DidAuthClientError>
  const wait = retryAfterSeconds === undefined ? '.' : ` in ${retryAfterSeconds} seconds.`
  return (userMessage ?? message).replace(/\.$/, wait)
}

type Place = HTMLElement | null | undefined

/** Returns the status element below a button or below its group. Screen readers announce its text. */
const findPlace = (element: Element): Place =>
  element.closest(':has(> [role=status])')?.querySelector<HTMLElement>(':scope > [role=status]')

/** Shows the outcome of an action. */
export function showAnswer(place: Place, text: string, kind: 'good' | 'bad' | 'plain' = 'plain'): void {
  if (!place) return
  place.dataset.kind = kind
  place.textContent = text
}

let users = 0

/** Counts a change of user, so that results of the previous user are no longer shown. */
export const changeUser = (): number => (users += 1)

/** Waits for work of the current user. @throws Error if the user changes meanwhile, so that nothing is shown */
export async function waitForUser<T>(work: Promise<T>): Promise<T> {
  const user = users
  const result = await work
  if (user !== users) throw new Error('The user has changed.')
  return result
}

/** Runs the action of a button. Meanwhile the button does not start it again, and keeps the focus. */
async function run(button: HTMLButtonElement, work: Work): Promise<void> {
  if (button.ariaBusy === 'true') return
  button.ariaBusy = 'true'
  // Read before the work starts, because it may replace the list that contains the button.
  const [place, user] = [findPlace(button), users]
  showAnswer(place, '')
  try {
    const outcome = await work()
    if (user === users) showAnswer(place, typeof outcome === 'string' ? outcome : '', 'good')
  } catch (error) {
    if (user === users) showAnswer(place, describeError(error), 'bad')
  } finally {
    button.ariaBusy = null
  }
}

export function onClick(button: HTMLButtonElement | string, work: Work): void {
  const element = typeof button === 'string' ? getElement(button, HTMLButtonElement) : button
  element.addEventListener('click', () => void run(element, work))
}

/** A form, also when it is submitted by the return key. */
export function onSubmit(id: string, work: Work): void {
  const form = getElement(id, HTMLFormElement)
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    const button = form.querySelector('button')
    if (button !== null) void run(button, work)
  })
}

/** A text for the clipboard, at a click. */
export function onCopy(id: string, text: () => string): void {
  onClick(id, async () => {
    await navigator.clipboard.writeText(text())
    return 'Copied.'
  })
}

/** A button of a list, such as "End". */
export function makeButton(text: string, label: string, work: Work): HTMLButtonElement {
  const button = make('button', { type: 'button', class: 'quiet', 'aria-label': label }, text)
  onClick(button, work)
  return button
}
