import type { DidAuthClientError } from 'express-did-auth-client'
import { getElement, make } from './elements.js'

/** The action of a button. The page shows the result if it is a text. */
type Work = () => Promise<unknown>

/** Returns the text of an error for users: `userMessage` of a client's error, else `message`. */
export function describeError(error: unknown): string {
  const { userMessage, message = String(error), retryAfterSeconds } = Object(error) as Partial<DidAuthClientError>
  const wait = retryAfterSeconds === undefined ? '.' : ` in ${retryAfterSeconds} seconds.`
  return (userMessage ?? message).replace(/\.$/, wait)
}

type StatusElement = HTMLElement | null | undefined

/** Finds the status element below a button or its group. Screen readers announce its text. */
const findStatus = (element: Element): StatusElement =>
  element.closest(':has(> [role=status])')?.querySelector<HTMLElement>(':scope > [role=status]')

/** Shows the result of an action. */
export function showAnswer(status: StatusElement, text: string, kind: 'success' | 'error' | 'plain' = 'plain'): void {
  if (!status) return
  status.dataset.kind = kind
  status.textContent = text
}

/** Number of changes of user since the page was opened. */
let userChanges = 0

/** Counts a change of user, so that results of the previous user are no longer shown. */
export const changeUser = (): number => (userChanges += 1)

/** Waits for work of the current user. @throws Error if the user changes during the work; the error is never shown */
export async function waitForUser<T>(work: Promise<T>): Promise<T> {
  const startedWith = userChanges
  const result = await work
  if (startedWith !== userChanges) throw new Error('The user has changed.')
  return result
}

/** Runs the action of a button. While it runs, the button keeps the focus and ignores clicks. */
async function run(button: HTMLButtonElement, work: Work): Promise<void> {
  if (button.ariaBusy === 'true') return
  button.ariaBusy = 'true'
  // Find the status element first: the work may replace the list that contains the button.
  const [status, startedWith] = [findStatus(button), userChanges]
  showAnswer(status, '')
  try {
    const result = await work()
    if (startedWith === userChanges) showAnswer(status, typeof result === 'string' ? result : '', 'success')
  } catch (error) {
    if (startedWith === userChanges) showAnswer(status, describeError(error), 'error')
  } finally {
    button.ariaBusy = null
  }
}

export function onClick(button: HTMLButtonElement | string, work: Work): void {
  const element = typeof button === 'string' ? getElement(button, HTMLButtonElement) : button
  element.addEventListener('click', () => void run(element, work))
}

/** Runs an action when a form is submitted, also by the Enter key. */
export function onSubmit(id: string, work: Work): void {
  const form = getElement(id, HTMLFormElement)
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    const button = form.querySelector('button')
    if (button !== null) void run(button, work)
  })
}

/** Copies a text to the clipboard when a button is clicked. Screen readers announce the result. */
export function onCopy(button: HTMLButtonElement | string, text: () => string): void {
  onClick(button, async () => {
    if (!isSecureContext) throw new Error('Browsers copy only on https. Select the text, and copy it yourself.')
    await navigator.clipboard.writeText(text())
    return 'Copied.'
  })
}

/** Creates a button of a list, such as "End". */
export function makeButton(text: string, label: string, work: Work): HTMLButtonElement {
  const button = make('button', { type: 'button', class: 'quiet', 'aria-label': label }, text)
  onClick(button, work)
  return button
}
