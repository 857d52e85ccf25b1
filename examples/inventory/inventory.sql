-- The shop's stock. `query_inventory.py` makes inventory.db of it when there is none.
PRAGMA user_version = 1;

CREATE TABLE product (
    sku      TEXT PRIMARY KEY CHECK (sku GLOB '[A-Z][0-9][0-9][0-9]'),
    name_zh  TEXT NOT NULL,
    name_en  TEXT NOT NULL,
    unit_zh  TEXT NOT NULL,
    unit_en  TEXT NOT NULL,
    stock    INTEGER NOT NULL CHECK (stock >= 0),
    reserved INTEGER NOT NULL CHECK (reserved BETWEEN 0 AND stock)
);

-- What may leave the shop. Stock and reservations stay behind this view: the program reads nothing else.
CREATE VIEW sellable AS
SELECT sku, name_zh, name_en, unit_zh, unit_en, stock - reserved AS available FROM product;

INSERT INTO product VALUES
    ('A101', '有线薄膜键盘', 'Wired Membrane Keyboard', '件', 'pcs', 120, 8),
    ('A103', '无线机械键盘', 'Wireless Mechanical Keyboard', '件', 'pcs', 42, 5),
    ('A105', '键盘清洁套装', 'Keyboard Cleaning Kit', '套', 'kits', 64, 0),
    ('A107', '机械键盘键帽', 'Mechanical Keyboard Keycaps', '套', 'sets', 15, 15),
    ('B201', '有线光学鼠标', 'Wired Optical Mouse', '件', 'pcs', 88, 3),
    ('B208', '蓝牙鼠标', 'Bluetooth Mouse', '件', 'pcs', 0, 0),
    ('B210', '人体工学鼠标垫', 'Ergonomic Mouse Pad', '张', 'pcs', 200, 20),
    ('C301', '27 英寸 4K 显示器', '27-inch 4K Monitor', '台', 'units', 18, 6),
    ('C305', '34 英寸曲面显示器', '34-inch Curved Monitor', '台', 'units', 7, 2),
    ('C310', '显示器支架', 'Monitor Arm', '个', 'pcs', 35, 1),
    ('D401', 'USB-C 扩展坞', 'USB-C Docking Station', '个', 'pcs', 52, 9),
    ('D404', 'USB-C 充电线 2 米', 'USB-C Charging Cable 2 m', '根', 'pcs', 300, 47),
    ('D407', '无线充电器', 'Wireless Charger', '个', 'pcs', 26, 4),
    ('E501', '降噪蓝牙耳机', 'Noise-Cancelling Bluetooth Headphones', '副', 'pairs', 33, 11),
    ('E503', '有线入耳式耳机', 'Wired In-Ear Headphones', '副', 'pairs', 75, 0),
    ('E506', '桌面音箱', 'Desktop Speakers', '对', 'pairs', 12, 2),
    ('F601', '1080P 摄像头', '1080P Webcam', '个', 'pcs', 22, 0),
    ('F603', '桌面麦克风', 'Desktop Microphone', '个', 'pcs', 9, 9),
    ('G701', '移动固态硬盘 1 TB', 'Portable SSD 1 TB', '个', 'pcs', 58, 13),
    ('G705', '笔记本电脑支架', 'Laptop Stand', '个', 'pcs', 46, 6);
