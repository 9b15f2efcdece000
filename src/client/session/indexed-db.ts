import { browser, type Database, type DatabaseRequest } from '../wire/browser.js'

/**
 * Runs one request on the client's object store in IndexedDB. Loaded on first use.
 *
 * @param verb - `add` fails if the name exists
 * @throws Error of IndexedDB, or without it
 */
export async function askDatabase(
  verb: 'get' | 'put' | 'add' | 'delete',
  name: string,
  value?: unknown
): Promise<unknown> {
  if (!browser.indexedDB) throw Error('No IndexedDB')
  const opening = browser.indexedDB.open('did-auth', 1)
  opening.onupgradeneeded = () => opening.result.createObjectStore('values')
  const database: Database = await waitFor(opening, 'onsuccess')
  const transaction = database.transaction('values', 'readwrite')
  const values = transaction.objectStore('values')
  const request = verb === 'get' || verb === 'delete' ? values[verb](name) : values[verb](value, name)
  // A failed request aborts its transaction.
  await waitFor(transaction, 'oncomplete').finally(() => database.close())
  return request.result
}

function waitFor<T>(request: DatabaseRequest<T>, success: 'onsuccess' | 'oncomplete'): Promise<T> {
  return new Promise((resolve, reject) => {
    request[success] = () => resolve(request.result)
    request.onerror = () => reject(Error('IndexedDB failed', { cause: request.error }))
  })
}
