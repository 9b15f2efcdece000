import type { Database, DatabaseRequest, DatabaseTransaction, IndexedDatabases } from '../wire/browser.js'

type Values = ReturnType<DatabaseTransaction['objectStore']>

/** Runs one request on the client's object store in IndexedDB. Loaded on first use. @throws Error of IndexedDB */
export async function askDatabase(
  databases: IndexedDatabases,
  use: (values: Values) => DatabaseRequest
): Promise<string | undefined> {
  const opening = databases.open('did-auth', 1)
  opening.onupgradeneeded = () => opening.result.createObjectStore('values')
  const database: Database = await waitFor(opening, 'onsuccess')
  const transaction = database.transaction('values', 'readwrite')
  const request = use(transaction.objectStore('values'))
  await waitFor(transaction, 'oncomplete')
  database.close()
  return request.result
}

function waitFor<T>(request: DatabaseRequest<T>, success: 'onsuccess' | 'oncomplete'): Promise<T> {
  return new Promise((resolve, reject) => {
    request[success] = () => resolve(request.result)
    request.onerror = () => reject(Error('IndexedDB failed', { cause: request.error }))
  })
}
