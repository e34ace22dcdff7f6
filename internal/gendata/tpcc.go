package gendata

import "strconv"

// The shape of the business: counts for each unit of size, in the proportions of TPC-C.
const (
	tpccUnit       = 1_050_000 // about this many bytes of tablespaces hold one unit
	unitCustomers  = 330
	unitOrders     = 440
	unitStock      = 1000
	linesPerOrder  = 10
	itemsPerDesign = 20000
)

// tpccTables returns the tables of an order-entry business of about size bytes as tablespaces.
func tpccTables(size int64) []table {
	units := max(1, int(size/tpccUnit))
	customers, orders, stock := units*unitCustomers, units*unitOrders, units*unitStock
	items := min(stock, itemsPerDesign)
	warehouses := max(1, units/80)
	tables := append(placeTables(warehouses), itemTables(items, stock, warehouses)...)
	return append(tables, customerTable(customers, warehouses), ordersTable(orders, customers, warehouses),
		orderLineTable(orders, items, warehouses), historyTable(customers, warehouses))
}

func tpccTable(name, create string, rows int, fill func(e *row, i int)) table {
	return table{database: tpccDB, name: name, create: create + " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4", rows: rows, row: fill}
}

func placeTables(warehouses int) []table {
	const address = `street VARCHAR(40), city VARCHAR(20), state CHAR(2), zip CHAR(9), tax DECIMAL(4,2), ytd DECIMAL(12,2)`
	place := func(e *row, prefix string, i int) {
		e.str(prefix + strconv.Itoa(i))
		e.address()
		e.cents(e.r.below(20))
		e.cents(30_000_000)
	}
	return []table{
		tpccTable("warehouse", `(w_id SMALLINT NOT NULL PRIMARY KEY, name VARCHAR(10), `+address+`)`, warehouses,
			func(e *row, i int) {
				e.int(i + 1)
				place(e, "W", i+1)
			}),
		tpccTable("district", `(w_id SMALLINT NOT NULL, d_id TINYINT NOT NULL, name VARCHAR(10), `+address+`,
			next_o_id INT, PRIMARY KEY (w_id, d_id))`, warehouses*10,
			func(e *row, i int) {
				e.int(i/10 + 1)
				e.int(i%10 + 1)
				place(e, "D", i+1)
				e.int(3001)
			}),
	}
}

func itemTables(items, stock, warehouses int) []table {
	return []table{
		tpccTable("item", `(i_id INT NOT NULL PRIMARY KEY, im_id INT, name VARCHAR(24), price DECIMAL(5,2), data VARCHAR(50))`, items,
			func(e *row, i int) {
				e.int(i + 1)
				e.int(e.r.between(1, 10000))
				e.product()
				e.cents(e.r.between(100, 9999))
				e.text(e.r.between(26, 50))
			}),
		tpccTable("stock", `(w_id SMALLINT NOT NULL, i_id INT NOT NULL, quantity SMALLINT, dist_01 CHAR(24), dist_02 CHAR(24),
			dist_03 CHAR(24), dist_04 CHAR(24), ytd DECIMAL(8,0), order_cnt SMALLINT, remote_cnt SMALLINT, data VARCHAR(50),
			PRIMARY KEY (w_id, i_id))`, stock,
			func(e *row, i int) {
				perWarehouse := stock/warehouses + 1
				e.int(i/perWarehouse + 1)
				e.int(i%perWarehouse + 1)
				e.int(e.r.between(10, 100))
				for range 4 {
					e.str("bin " + pick(&e.r, e.w.street) + " " + strconv.Itoa(e.r.skewed(60)))
				}
				e.int(e.r.skewed(500))
				e.int(e.r.skewed(40))
				e.int(0)
				e.text(e.r.between(26, 50))
			}),
	}
}

func customerTable(customers, warehouses int) table {
	return tpccTable("customer", `(c_id INT NOT NULL PRIMARY KEY, w_id SMALLINT NOT NULL, d_id TINYINT NOT NULL, first VARCHAR(16),
		middle CHAR(2), last VARCHAR(16), street VARCHAR(40), city VARCHAR(20), state CHAR(2), zip CHAR(9), phone CHAR(16),
		since DATETIME, credit CHAR(2), credit_lim DECIMAL(12,2), discount DECIMAL(4,2), balance DECIMAL(12,2),
		ytd_payment DECIMAL(12,2), payment_cnt SMALLINT, delivery_cnt SMALLINT, data TEXT, KEY by_name (w_id, d_id, last, first))`,
		customers, func(e *row, i int) {
			e.int(i + 1)
			e.int(i%warehouses + 1)
			e.int(i/warehouses%10 + 1)
			e.str(pick(&e.r, e.w.first))
			e.str("OE")
			e.str(pick(&e.r, e.w.last))
			e.address()
			e.digits(16)
			e.moment(i, customers)
			e.str(pick(&e.r, e.w.credit))
			e.cents(5_000_000)
			e.cents(e.r.below(50))
			e.cents(e.r.skewed(1_000_000))
			e.cents(1000)
			e.int(1)
			e.int(0)
			e.text(e.r.between(300, 500))
		})
}

func ordersTable(orders, customers, warehouses int) table {
	return tpccTable("orders", `(o_id INT NOT NULL PRIMARY KEY, w_id SMALLINT NOT NULL, d_id TINYINT NOT NULL, c_id INT, entry_d DATETIME,
		carrier_id TINYINT, ol_cnt TINYINT, all_local TINYINT, KEY by_customer (w_id, d_id, c_id, o_id))`, orders,
		func(e *row, i int) {
			e.int(i + 1)
			e.int(i%warehouses + 1)
			e.int(i/warehouses%10 + 1)
			e.int(e.r.skewed(customers) + 1)
			e.moment(i, orders)
			if i > orders*7/10 {
				e.null()
			} else {
				e.int(e.r.between(1, 10))
			}
			e.int(linesPerOrder)
			e.int(1)
		})
}

func orderLineTable(orders, items, warehouses int) table {
	return tpccTable("order_line", `(w_id SMALLINT NOT NULL, d_id TINYINT NOT NULL, o_id INT NOT NULL, number TINYINT NOT NULL, i_id INT,
		supply_w_id SMALLINT, delivery_d DATETIME, quantity TINYINT, amount DECIMAL(6,2), dist_info CHAR(24),
		PRIMARY KEY (o_id, number))`, orders*linesPerOrder,
		func(e *row, i int) {
			order := i / linesPerOrder
			e.int(order%warehouses + 1)
			e.int(order/warehouses%10 + 1)
			e.int(order + 1)
			e.int(i%linesPerOrder + 1)
			e.int(e.r.skewed(items) + 1)
			e.int(order%warehouses + 1)
			e.moment(order, orders)
			e.int(5)
			e.cents(e.r.between(1, 999999))
			e.str("bin " + pick(&e.r, e.w.street) + " " + strconv.Itoa(e.r.skewed(60)))
		})
}

func historyTable(rows, warehouses int) table {
	return tpccTable("history", `(c_id INT, c_d_id TINYINT, c_w_id SMALLINT, d_id TINYINT, w_id SMALLINT, date DATETIME,
		amount DECIMAL(6,2), data VARCHAR(24), KEY by_customer (c_w_id, c_d_id, c_id))`, rows,
		func(e *row, i int) {
			e.int(i + 1)
			e.int(i/warehouses%10 + 1)
			e.int(i%warehouses + 1)
			e.int(i/warehouses%10 + 1)
			e.int(i%warehouses + 1)
			e.moment(i, rows)
			e.cents(1000)
			e.text(e.r.between(12, 24))
		})
}
